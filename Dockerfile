# A static binary and nothing else:
#   docker build -t kyvtest .
#   docker run --rm -v "$PWD:/work" kyvtest run suites/
FROM rust:1.95-alpine AS build
WORKDIR /src
COPY Cargo.toml Cargo.lock ./
COPY src src
COPY crates crates
COPY checks checks
COPY benches benches
COPY README.md ./
RUN cargo build --profile dist --locked --bin kyvtest

FROM scratch
COPY --from=build /src/target/dist/kyvtest /kyvtest
COPY LICENSE /LICENSE
WORKDIR /work
ENTRYPOINT ["/kyvtest"]
