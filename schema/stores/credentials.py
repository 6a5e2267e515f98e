"""Tells whether an object store refuses because of credentials, and what to set.

In: the error of a client of an object store. Out: one sentence, or None for other errors. Must not
know the clients: they are optional, so errors are recognized by their names.
"""

_S3 = (
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; "
    "FSSPEC_S3_ANON=true is for public buckets"
)
_GOOGLE = (
    "run 'gcloud auth application-default login', or set GOOGLE_APPLICATION_CREDENTIALS"
)
# Names of errors for credentials that are missing or incomplete -> what to do.
_MISSING = {
    "NoCredentialsError": _S3,
    "PartialCredentialsError": _S3,
    "ProfileNotFound": _S3,
    "TokenRetrievalError": _S3,
    "DefaultCredentialsError": _GOOGLE,
    "RefreshError": _GOOGLE,
}
# Texts of refusals. Google's client asks anonymously if it has no credentials.
_REFUSED = {
    "Anonymous caller": _GOOGLE,
    "Invalid Credentials": _GOOGLE,
    "InvalidAccessKeyId": _S3,
    "SignatureDoesNotMatch": _S3,
    "Access Key Id you provided does not exist": _S3,
    "request signature we calculated does not match": _S3,
}


def problem(error: BaseException) -> str | None:
    """Returns what is wrong with the credentials and what to do; None for other errors."""
    reasons = [error, *_causes(error)]
    for reason in reasons:
        advice = _MISSING.get(type(reason).__name__)
        if advice is not None:
            return f"no credentials ({_line(reason)}): {advice}; see docs/clusters.md"
    for reason in reasons:
        for text, advice in _REFUSED.items():
            if text in str(reason):
                return (
                    f"credentials are refused or missing ({_line(reason)}): {advice}; "
                    "see docs/clusters.md"
                )
    return None


def _causes(error: BaseException) -> list[BaseException]:
    causes: list[BaseException] = []
    cause = error.__cause__
    while cause is not None and cause not in causes:
        causes.append(cause)
        cause = cause.__cause__
    return causes


def _line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
