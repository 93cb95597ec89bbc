# syntax=docker/dockerfile:1
# Two images from one file:
#   docker build --target cpu -t fastqps:0.1.0-cpu .
#   docker build --target gpu -t fastqps:0.1.0-gpu --build-arg TORCH="torch==2.13.0" .
# For x86-64 and arm64 at once: docker buildx build --platform linux/amd64,linux/arm64 --target cpu -t REGISTRY/fastqps:0.1.0-cpu --push .
# Debian 12 is what fastqps is built and tested on. Builds and runs without root; docs: k8s/README.md, "The image".

FROM debian:12-slim AS base
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN apt-get update \
    && apt-get install -y --no-install-recommends python3 libnghttp2-14 libsimdjson14 libssl3 zlib1g ca-certificates \
    && rm -rf /var/lib/apt/lists/*

# The extensions are compiled here, with what packages.apt names, into one wheel.
FROM base AS wheel
RUN apt-get update \
    && apt-get install -y --no-install-recommends \
    g++ make pkg-config python3-dev python3-venv libnghttp2-dev libssl-dev zlib1g-dev nlohmann-json3-dev \
    libboost1.81-dev libsimdjson-dev \
    && rm -rf /var/lib/apt/lists/*
RUN python3 -m venv /build-env && /build-env/bin/pip install "setuptools>=77" "pybind11>=3.0"
WORKDIR /src
COPY pyproject.toml setup.py README.md LICENSE ./
COPY csrc csrc
COPY third_party third_party
COPY loadgen loadgen
COPY fastqps fastqps
RUN /build-env/bin/pip wheel --no-build-isolation --no-deps --wheel-dir /wheels .

# What runs, complete in one folder. torch first: it is large, and changes seldom.
FROM wheel AS installed-cpu
ARG TORCH="torch==2.13.0 --index-url https://download.pytorch.org/whl/cpu"
RUN python3 -m venv /opt/fastqps && /opt/fastqps/bin/pip install $TORCH
RUN /opt/fastqps/bin/pip install "$(ls /wheels/*.whl)[demo,bench,tracing]"

FROM wheel AS installed-gpu
ARG TORCH="torch==2.13.0"
RUN python3 -m venv /opt/fastqps && /opt/fastqps/bin/pip install $TORCH
RUN /opt/fastqps/bin/pip install "$(ls /wheels/*.whl)[demo,bench,tracing]" nvidia-ml-py

# Nothing in the image is written to: it runs with a read-only root file system, given /tmp and /data. /data is the home: models
# of the hub, step sizes that a start has measured, and compiled GPU kernels stay there.
FROM base AS runtime
RUN useradd --uid 10001 --user-group --create-home --home-dir /data --shell /usr/sbin/nologin fastqps
# A port of a container is reachable from outside of it only on an address of the container, not on its loopback.
ENV PATH=/opt/fastqps/bin:$PATH HOME=/data HF_HOME=/data FASTQPS_HOST=0.0.0.0 FASTQPS_ADMIN_HOST=0.0.0.0
VOLUME /data
USER 10001:10001
WORKDIR /tmp
EXPOSE 50051 8000 9464
STOPSIGNAL SIGTERM
ENTRYPOINT ["fastqps"]
CMD ["serve"]

FROM runtime AS gpu
USER root
# Triton compiles what starts its kernels, at the first start on a kind of GPU.
RUN apt-get update \
    && apt-get install -y --no-install-recommends gcc libc6-dev python3-dev \
    && rm -rf /var/lib/apt/lists/*
COPY --from=installed-gpu /opt/fastqps /opt/fastqps
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER 10001:10001

# The last one is what a build without --target makes.
FROM runtime AS cpu
COPY --from=installed-cpu /opt/fastqps /opt/fastqps
