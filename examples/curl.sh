#!/bin/sh
# A message's life with curl alone: publish, receive under a lease, remove under that lease.
#
#     sh examples/curl.sh
set -eu
mq=${MQ_URL:-http://127.0.0.1:8080}
answer=$(mktemp -d)
trap 'rm -r "$answer"' EXIT

ask() { curl --silent --show-error --fail-with-body --retry 3 "$@"; }

ask -X PUT "$mq/orders"
# With an id of your own, sending the message again makes no second one. Each run is an order.
order="order-$(date +%s)-$$"
ask "$mq/orders/messages" -H "X-Message-Id: $order" -H 'Content-Type: text/plain' -d 'two coffees'

# Wait up to 20 seconds for a message. Status 204 means that none came.
status=$(ask -D "$answer/head" -o "$answer/body" -w '%{http_code}' "$mq/orders/messages?wait=20")
test "$status" = 200 || exit 3
header() { sed -n "s/^$1: *//Ip" "$answer/head" | tr -d '\r'; }

echo "received $(header X-Message-Id): $(cat "$answer/body")"
# If the lease ran out and another receiver has the message, this is answered 412.
ask -X DELETE "$mq/orders/messages/$(header X-Message-Id)" -H "If-Match: $(header ETag)"
echo removed
