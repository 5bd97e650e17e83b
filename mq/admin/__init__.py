"""The admin listener: health, metrics, the OpenAPI document. The six endpoints are in `mq.web`."""
