"""The plan of a run: how ranks and samplers use the machine."""
