"""Who asks: signatures of version 4, as SDKs make them.

`signatures` verifies one. `signature_fields` reads what a request says of its own, `canonical`
makes the text that was signed, and `signing_keys` has the keys. `last_signed` saves most of that
for requests of one client within a second.

What the key of a token allows belongs in `mq.web.tokens`.
"""
