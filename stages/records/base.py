"""The base of all records: frozen, and closed to fields that nobody declared."""

from enum import StrEnum

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """A row of an artefact. Equal contents give equal bytes when written."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Status(StrEnum):
    """What became of a row. Scores exist only where it is ``ok``; all else carries a reason."""

    OK = "ok"
    REFUSED = "refused"  # the model declined, or a filter did so in its name
    TRUNCATED = "truncated"  # the reply ended at the token limit
    API_ERROR = "api_error"  # the call failed for good
    UNPARSED = "unparsed"  # the reply could not be read, even after one repair request
    NOT_RECORDED = "not_recorded"  # a recorded adapter holds no reply to this request
    NO_CONCEPTS = "no_concepts"  # the explanation names nothing visible that could be edited
    TARGET_NOT_FOUND = "target_not_found"  # the detector sees no such object
    INSIDE_UNCHANGED = "inside_unchanged"  # r_in is not above tau_in
    OUTSIDE_CHANGED = "outside_changed"  # r_out is not below tau_out
    SIZE_MISMATCH = "size_mismatch"  # the editor returned another aspect ratio
    CHANGE_ABSENT = "change_absent"  # the verifier does not see the change that was asked for
    REST_CHANGED = "rest_changed"  # the verifier sees the change, and another one besides
    UNVERIFIED = "unverified"  # the verifier, whose word was needed, gave no usable reply
    MASK_TOO_LARGE = "mask_too_large"  # the mask leaves no outside, so r_out is undefined
    TIED = "tied"  # judges are divided, and none of their scores has most votes
    NOT_REACHED = "not_reached"  # an earlier step of the chain, or an earlier stage, failed
