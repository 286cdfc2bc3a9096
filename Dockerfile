# accel_rl for a CPU:  docker build --tag accel_rl .
# With CUDA:           docker build --tag accel_rl --build-arg TORCH_INDEX=https://download.pytorch.org/whl/cu130 .
# Other games:         docker build --tag accel_rl --build-arg GAMES="qbert seaquest" .
# A run, in ./runs:    docker run --rm --volume ./runs:/work/runs accel_rl train pqn --game pong
# On the GPUs:         docker run --rm --gpus all --volume ./runs:/work/runs accel_rl train pqn --game pong
ARG PYTHON=3.13
FROM python:${PYTHON}-slim-trixie AS build
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --yes --no-install-recommends g++ git && rm -rf /var/lib/apt/lists/*
RUN python -m venv /opt/accel_rl
ENV PATH=/opt/accel_rl/bin:$PATH PIP_NO_CACHE_DIR=1
# hadolint ignore=DL3013
RUN python -m pip install torch --index-url "$TORCH_INDEX"
COPY . /source
RUN ACCEL_RL_REQUIRE_EXTENSIONS=1 python -m pip install "/source[video,tensorboard]"
# The image has no compiler: games are translated here, and played by its user from the system cache.
ARG GAMES="pong breakout"
ENV ACCEL_RL_SYSTEM_CACHE=/opt/accel_rl/translations
RUN for game in $GAMES; do python -c "from accel_rl.emulator.translation import translate; assert translate('$game')" || exit 1; done

FROM python:${PYTHON}-slim-trixie
COPY --from=build /opt/accel_rl /opt/accel_rl
ENV PATH=/opt/accel_rl/bin:$PATH ACCEL_RL_SYSTEM_CACHE=/opt/accel_rl/translations
RUN useradd --uid 1000 --create-home player && mkdir --parents /work/runs && chown 1000 /work/runs
USER 1000
WORKDIR /work
ENTRYPOINT ["accel-rl"]
CMD ["--help"]
