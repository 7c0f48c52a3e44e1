# Two images from one build: `docker build --target operator .` and `docker build --target worker .`
FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
RUN cargo build --release --locked -p clickhouse-sink-operator -p clickhouse-sink-worker

FROM debian:bookworm-slim AS base
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/*
USER 65532:65532

FROM base AS worker
COPY --from=build /src/target/release/clickhouse-sink-worker /usr/local/bin/
ENTRYPOINT ["clickhouse-sink-worker"]

# `local` starts workers as child processes, so they are in this image too.
FROM base AS operator
COPY --from=build /src/target/release/clickhouse-sink-operator /src/target/release/clickhouse-sink-worker /usr/local/bin/
ENTRYPOINT ["clickhouse-sink-operator"]
