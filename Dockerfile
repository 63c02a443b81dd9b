# Weft on Debian 12, with everything that `make setup` installs. docs/install.md, "Docker", says how to use it.
#
#     docker build -t weft .
#     docker run --rm weft
FROM debian:12

RUN apt-get update -q \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends ca-certificates git make \
    && rm -rf /var/lib/apt/lists/*

# Plain text in logs, no pip cache in a layer, and one cache of compiled programs whoever runs the container.
ENV LC_ALL=C.UTF-8 PIP_NO_CACHE_DIR=1 WEFT_CACHE_DIR=/var/cache/weft

WORKDIR /opt/weft
COPY . .
# The eBPF proof needs privileges that a build does not have, so set-up reports it as lost; it is made up for at run time.
RUN make setup \
    && install -d -m 1777 /var/cache/weft \
    && rm -rf /var/lib/apt/lists/*

# Results of `docker run -v "$PWD:/work" ...` land in the caller's folder.
WORKDIR /work
CMD ["cat", "/opt/weft/setup/container.txt"]
