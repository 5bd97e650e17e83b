"""The admin listener: health, metrics, the OpenAPI document, the page for people. The six endpoints
belong in `mq.web`."""
