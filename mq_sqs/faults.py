"""The errors of SQS: their names, their codes in the query protocol, their status.

The name is that of Amazon's service model. The code is what clients of the query protocol see, and
those of the JSON protocol in the header `x-amzn-query-error`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from mq import errors

_PREFIX = "AWS.SimpleQueueService."


class SqsFault(NamedTuple):
    """A kind of error. `is_senders` says that the request must be changed before it is sent
    again."""

    name: str
    code: str
    status: int = 400
    is_senders: bool = True


def _plain(name: str, status: int = 400) -> SqsFault:
    return SqsFault(name, name, status)


def _prefixed(name: str) -> SqsFault:
    return SqsFault(name, _PREFIX + name)


# Errors of the model
QUEUE_DOES_NOT_EXIST = SqsFault("QueueDoesNotExist", _PREFIX + "NonExistentQueue")
QUEUE_NAME_EXISTS = SqsFault("QueueNameExists", "QueueAlreadyExists")
BATCH_ENTRY_IDS_NOT_DISTINCT = _prefixed("BatchEntryIdsNotDistinct")
BATCH_REQUEST_TOO_LONG = _prefixed("BatchRequestTooLong")
EMPTY_BATCH_REQUEST = _prefixed("EmptyBatchRequest")
INVALID_BATCH_ENTRY_ID = _prefixed("InvalidBatchEntryId")
TOO_MANY_ENTRIES = _prefixed("TooManyEntriesInBatchRequest")
MESSAGE_NOT_INFLIGHT = _prefixed("MessageNotInflight")
UNSUPPORTED_OPERATION = _prefixed("UnsupportedOperation")
INVALID_ATTRIBUTE_NAME = _plain("InvalidAttributeName")
INVALID_ATTRIBUTE_VALUE = _plain("InvalidAttributeValue")
INVALID_MESSAGE_CONTENTS = _plain("InvalidMessageContents")
INVALID_ADDRESS = _plain("InvalidAddress", 404)
INVALID_SECURITY = _plain("InvalidSecurity", 403)
RECEIPT_HANDLE_IS_INVALID = _plain("ReceiptHandleIsInvalid", 404)
RESOURCE_NOT_FOUND = _plain("ResourceNotFoundException", 404)


# Errors that every service of Amazon has
EMPTY_VALUE = _plain("EmptyValue")
"""Of an entry of a batch, where a request by itself lacks a parameter."""
MISSING_PARAMETER = SqsFault("MissingRequiredParameterException", "MissingParameter")
INVALID_PARAMETER_VALUE = SqsFault("InvalidParameterValueException", "InvalidParameterValue")
MISSING_ACTION = _plain("MissingAction")
NO_OPERATION = SqsFault("UnknownOperation", "UnknownOperationException", 404)
"""What Amazon says to a GET without an action, as that of a browser at the URL of a queue."""
INVALID_ACTION = SqsFault("UnknownOperationException", "InvalidAction")
SERIALIZATION = SqsFault("SerializationException", "MalformedInput")
MALFORMED_QUERY = _plain("MalformedQueryString")
METHOD_NOT_ALLOWED = _plain("UnsupportedMethod", 405)
REQUEST_TOO_LONG = _plain("RequestEntityTooLarge", 413)
REQUEST_TIMEOUT = _plain("RequestTimeout", 408)
MISSING_AUTHENTICATION_TOKEN = _plain("MissingAuthenticationToken", 403)
INCOMPLETE_SIGNATURE = _plain("IncompleteSignature")
INVALID_CLIENT_TOKEN_ID = _plain("InvalidClientTokenId", 403)
SIGNATURE_DOES_NOT_MATCH = _plain("SignatureDoesNotMatch", 403)
REQUEST_EXPIRED = _plain("RequestExpired")
ACCESS_DENIED = SqsFault("AccessDeniedException", "AccessDenied", 403)
INTERNAL_ERROR = SqsFault("InternalError", "InternalError", 500, False)
SERVICE_UNAVAILABLE = SqsFault("ServiceUnavailable", "ServiceUnavailable", 503, False)


class SQSError(Exception):
    """An error for the client: its kind, and a sentence."""

    def __init__(self, fault: SqsFault, detail: str) -> None:
        super().__init__(detail)
        self.fault = fault


def missing(name: str) -> SQSError:
    """Return the error for a request that lacks a parameter."""
    return SQSError(MISSING_PARAMETER, f"The request must contain the parameter {name}.")


def unknown_attribute(name: str) -> SQSError:
    """Return the error for an attribute that a queue does not have, or that cannot be set."""
    return SQSError(INVALID_ATTRIBUTE_NAME, f"Unknown Attribute {name[:80]}.")


def wrong_value(name: str, why: str) -> SQSError:
    """Return the error for an attribute of a queue with a value that it cannot have."""
    return SQSError(
        INVALID_ATTRIBUTE_VALUE, f"Invalid value for the parameter {name}. Reason: {why}."
    )


_FAULTS: Mapping[type[errors.MQError], SqsFault] = {
    errors.QueueNotFound: QUEUE_DOES_NOT_EXIST,
    errors.InvalidName: INVALID_PARAMETER_VALUE,
    errors.InvalidRequest: INVALID_PARAMETER_VALUE,
    errors.PropertiesTooLarge: INVALID_PARAMETER_VALUE,
    errors.PropertiesUnsupported: UNSUPPORTED_OPERATION,
    errors.QueueIsFifo: UNSUPPORTED_OPERATION,
    errors.BodyTooLarge: REQUEST_TOO_LONG,
    errors.RequestTimeout: REQUEST_TIMEOUT,
    errors.BodyUnreadable: SERIALIZATION,
    errors.ExpectationFailed: INVALID_PARAMETER_VALUE,
    errors.Forbidden: ACCESS_DENIED,
    errors.ForeignPage: INVALID_SECURITY,
    errors.UnknownHost: INVALID_ADDRESS,
    errors.StoreUnavailable: SERVICE_UNAVAILABLE,
}


def translate(error: errors.MQError) -> SQSError:
    """Return an error of MQ as a client of SQS gets it."""
    if isinstance(error, errors.QueueNotFound):
        return SQSError(QUEUE_DOES_NOT_EXIST, "The specified queue does not exist.")
    return SQSError(_FAULTS[type(error)], str(error))
