# The whole of MQ in one image: mq, mq-mover, mq-reaper, mqctl.
#
#     docker build -t mq .
#     docker run -p 127.0.0.1:8080:8080 -v mq:/var/lib/mq mq
#
# Wheels in the folder `wheels` (pip wheel --wheel-dir wheels .) are installed in place of what an
# index has: then the build asks no network for anything. `--build-arg EXTRAS=[spark]` adds Spark
# and a Java.

ARG PYTHON=python:3.13-slim

FROM ${PYTHON} AS build
ARG EXTRAS=
WORKDIR /src
COPY . .
RUN python3 -m venv /opt/mq && \
    if ls wheels/mq_server-*.whl >/dev/null 2>&1; then \
        set -- --no-index --find-links wheels "mq-server${EXTRAS}"; \
    else \
        set -- ".${EXTRAS}"; \
    fi && \
    /opt/mq/bin/python -m pip install --no-cache-dir --disable-pip-version-check "$@" && \
    /opt/mq/bin/python -m pip uninstall --yes --quiet --disable-pip-version-check pip setuptools && \
    install -d -m 0700 /folders/mq ${EXTRAS:+/folders/mq-lake}

FROM ${PYTHON}
LABEL org.opencontainers.image.title="MQ" \
      org.opencontainers.image.description="A durable message queue over plain HTTP" \
      org.opencontainers.image.licenses="MIT"
COPY --from=build /opt/mq /opt/mq
COPY examples /opt/mq/examples
COPY --from=build --chown=10001:10001 /folders /var/lib
ENV PATH=/opt/mq/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    MQ_ROOT=/var/lib/mq \
    MQ_ADDRESS=0.0.0.0 \
    MQ_ADMIN=127.0.0.1:8081
# Not root, and by number, so that Kubernetes can tell; Java asks for the name.
RUN echo 'mq:x:10001:10001::/var/lib/mq:/usr/sbin/nologin' >> /etc/passwd
USER 10001:10001
VOLUME /var/lib/mq
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8081/readyz', timeout=4)"]
CMD ["mq", "--standalone"]
