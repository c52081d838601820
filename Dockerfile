# Berth in a container. How it is built and run: docs/operating/container.md.

FROM golang:1.26-trixie AS programs
RUN apt-get update && apt-get install -y --no-install-recommends nodejs && rm -rf /var/lib/apt/lists/*
WORKDIR /opt/berth
COPY tools tools
COPY machine machine
RUN node tools/setup/programs.mjs /programs

FROM node:24-trixie-slim
RUN apt-get update && apt-get install -y --no-install-recommends \
    btrfs-progs ca-certificates debian-archive-keyring erofs-utils iproute2 kmod mmdebstrap mount passwd procps tar tini util-linux \
    && rm -rf /var/lib/apt/lists/*
# The same in every image: a volume outlives the image that wrote it.
RUN for account in pg:801 api:802 cell:803 dns:804 ports:805; do name="berth-${account%:*}"; id="${account#*:}"; \
    groupadd --system --gid "$id" "$name" \
    && useradd --system --uid "$id" --gid "$id" --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin "$name"; done
WORKDIR /opt/berth
COPY package.json package-lock.json ./
RUN npm ci --omit=dev --no-audit --no-fund
COPY . .
COPY --from=programs /programs /opt/berth-programs
ENV BERTH_RUNSC=/opt/berth-programs/runsc \
    BERTH_HOSTD=/opt/berth-programs/hostd \
    BERTH_AGENT=/opt/berth-programs/agent \
    BERTH_PORTD=/opt/berth-programs/portd \
    BERTH_SUPERVISOR=/opt/berth-programs/supervisor \
    BERTH_API_LISTEN=0.0.0.0:8080 \
    BERTH_CELL_LISTEN=0.0.0.0:8081 \
    BERTH_PORTS_LISTEN=0.0.0.0:8084 \
    BERTH_SHOW_LOGS=yes
VOLUME /var/lib/berth /var/cache/berth
EXPOSE 8080 8081 8084
ENTRYPOINT ["tini", "--", "node", "tools/start.mjs"]
