# Debian with ./train; untried where no container engine runs.
FROM debian:bookworm-slim
COPY . /sqrtdk
WORKDIR /sqrtdk
RUN ./setup.sh
ENTRYPOINT ["./train"]
