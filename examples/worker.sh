#!/bin/sh
# A worker made of a shell function: mqctl runs this script again for each message, with the body on
# stdin, and removes the message when it exits with 0.
#
#     sh examples/worker.sh
set -eu

if test -z "${MQ_MESSAGE_ID-}"; then
    mqctl create orders
    exec mqctl exec orders --concurrency 2 --dead-after 5 -- sh "$0"
fi

# Status 75 would give the message back for later; any other but 0 counts as a failure.
echo "brewing $(cat)"
