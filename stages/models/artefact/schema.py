"""From records to columns: shapes of fields, and what Arrow and Hugging Face call them.

A shape is a word (``string``, ``int64``, ``float64``, ``bool``, ``image``), a list of one shape,
or a mapping of names to shapes.

Sources: the schema metadata under ``huggingface`` is what `datasets` writes and reads; lists are
given there as JSON lists, which `datasets` 2 to 5 all read, whereas its own ``List`` is unknown
before version 4. The YAML form is that of ``dataset_info`` in the data cards of the Hub.
"""

import json
import types
from enum import Enum
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from stages.models.artefact.layout import Table

Shape = str | list[Any] | dict[str, Any]
IMAGE = "image"
_WORDS: tuple[tuple[type, str], ...] = (
    (bool, "bool"),
    (int, "int64"),
    (float, "float64"),
    (str, "string"),
)


def columns(table: Table) -> dict[str, Shape]:
    """All columns of a table in order: axes, the record's fields, further text, pictures."""
    axes = {axis: "int64" if axis == "seed" else "string" for axis in table.axes}
    return {
        **axes,
        **fields(table.record),
        **dict.fromkeys(table.extra, "string"),
        **dict.fromkeys(table.pictures, IMAGE),
    }


def fields(record: type[BaseModel]) -> dict[str, Shape]:
    """The shapes of a record's fields."""
    return {name: shape(info.annotation) for name, info in record.model_fields.items()}


def shape(annotation: Any) -> Shape:
    """The shape of a field's type; whether it may be null makes no difference."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        (inner,) = (arg for arg in args if arg is not type(None))
        return shape(inner)
    if origin is tuple:
        return [shape(args[0])]
    if origin is Literal:
        return shape(type(args[0]))
    if isinstance(annotation, type):
        if issubclass(annotation, BaseModel):
            return dict(fields(annotation))
        if issubclass(annotation, Enum):
            return "string"
        for kind, word in _WORDS:
            if issubclass(annotation, kind):
                return word
    raise TypeError(f"no column can hold {annotation!r}")


def arrow_type(of: Shape) -> Any:
    """The Arrow type of a shape."""
    import pyarrow as pa

    if isinstance(of, list):
        return pa.list_(arrow_type(of[0]))
    if isinstance(of, dict):
        return pa.struct([pa.field(name, arrow_type(part)) for name, part in of.items()])
    if of == IMAGE:
        return pa.struct([pa.field("bytes", pa.binary()), pa.field("path", pa.string())])
    return {"bool": pa.bool_, "int64": pa.int64, "float64": pa.float64, "string": pa.string}[of]()


def arrow_schema(table: Table) -> Any:
    """The Arrow schema of a table, with the features that `datasets` reads from its metadata."""
    import pyarrow as pa

    shapes = columns(table)
    features = {name: feature(of) for name, of in shapes.items()}
    described = json.dumps({"info": {"features": features}}, separators=(",", ":"))
    return pa.schema(
        [pa.field(name, arrow_type(of)) for name, of in shapes.items()],
        metadata={"huggingface": described},
    )


def feature(of: Shape) -> Any:
    """A shape as `datasets` writes it in JSON."""
    if isinstance(of, list):
        return [feature(of[0])]
    if isinstance(of, dict):
        return {name: feature(part) for name, part in of.items()}
    return {"_type": "Image"} if of == IMAGE else {"dtype": of, "_type": "Value"}


def card_feature(name: str, of: Shape) -> dict[str, Any]:
    """A shape as ``dataset_info`` in a data card's front matter writes it."""
    if isinstance(of, list):
        inner = card_feature("", of[0])
        return {"name": name, "list": inner.get("dtype") or inner["struct"]}
    if isinstance(of, dict):
        return {"name": name, "struct": [card_feature(*part) for part in of.items()]}
    return {"name": name, "dtype": of}


def same_type(found: Any, of: Shape) -> bool:
    """Whether a column's Arrow type is the one that it should have, wide offsets allowed."""
    return _plain(found) == _plain(arrow_type(of))


def _plain(arrow: Any) -> str:
    return str(arrow).replace("large_", "").replace("element: ", "item: ")
