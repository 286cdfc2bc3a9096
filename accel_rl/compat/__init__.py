"""The emulator with the interfaces of other libraries: EnvPool, Stable-Baselines3 and older Gymnasium."""
