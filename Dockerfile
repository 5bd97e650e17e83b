# One image with all of MQ: mq, mq-mover, mq-reaper, mq-sqs, mqctl.
#
#     docker build -t mq .
#     docker run -p 127.0.0.1:8080:8080 -v mq:/var/lib/mq mq
#
# The first stage compiles the native part of the file calls, if it can get Debian's packages.
# MQ's dependencies are installed by the hashes of requirements.lock. Wheels in the folder `wheels`
# (docs/deploy.md) take the place of an index: the build then uses no network for Python
# packages. `--build-arg EXTRAS=[spark]` adds Spark and a Java, for which there are no hashes.

# Python 3.13.15 on Debian trixie. Tag and digest change together.
ARG PYTHON=python:3.13-slim@sha256:7c61056e61ac89e852de05f3dc6fa51a6dd2181797bceed46aa725dd7cb2cd3b

FROM ${PYTHON} AS build
ARG EXTRAS=
WORKDIR /src
COPY . .
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python3 -m venv /opt/mq && \
    if ls wheels/mq_server-*.whl >/dev/null 2>&1; then \
        from="--no-index --find-links wheels"; \
    else \
        from="--find-links wheels" && \
        { apt-get update -qq && \
          apt-get install -qq -y --no-install-recommends gcc libc6-dev || \
          echo "no compiler: MQ goes without its native part" >&2; } && \
        python3 -m venv /build && \
        /build/bin/python -m pip install --require-hashes -r requirements-build.lock && \
        /build/bin/python -m pip wheel --no-deps --no-build-isolation --wheel-dir wheels .; \
    fi && \
    /opt/mq/bin/python -m pip install $from --require-hashes -r requirements.lock && \
    /opt/mq/bin/python -m pip install --no-index --find-links wheels --no-deps mq-server && \
    if test -n "${EXTRAS}"; then \
        /opt/mq/bin/python -m pip install $from "mq-server${EXTRAS}"; \
    fi && \
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
    MQ_INSECURE=1 \
    MQ_ADMIN=127.0.0.1:8081 \
    MQ_SQS_ADDRESS=0.0.0.0
# The user is given by number, so that Kubernetes can tell that it is not root; Java needs the name.
RUN echo 'mq:x:10001:10001::/var/lib/mq:/usr/sbin/nologin' >> /etc/passwd
USER 10001:10001
VOLUME /var/lib/mq
EXPOSE 8080 9324
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-m", "mq_sqs.healthy"]
CMD ["mq", "--standalone"]
