import json

import pyarrow as pa
import pytest

from tft_keras.data import Schema, prepare
from tft_keras.data.table import ArrowTable
from tft_keras.errors import InputError

from .tables import SCHEMA, SMALL, shop_table


def test_goes_to_json_and_back():
    assert Schema.from_dict(json.loads(json.dumps(SCHEMA.to_dict()))) == SCHEMA


def test_one_name_may_stand_for_a_list_of_one():
    assert Schema("y", "t", group="store").group == ("store",)


def test_a_group_column_may_be_static_too():
    schema = Schema("y", "t", group=("store",), static=("store",))
    assert schema.inputs == ("store",)


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        ({"known": ("y",)}, "one role.*'y' as target and known"),
        ({"known": ("a",), "observed": ("a",)}, "one role.*'a' as known and observed"),
        ({"group": ("a",), "known": ("a",)}, "group column.*'a' as group and known"),
        ({"group": ("t",)}, "group column.*'t' as group and time"),
        ({"known": ("a", "a")}, "each once.*known"),
        ({"known": ("hour",), "categorical": ("hours",)}, "categorical.*Did you mean 'hour'"),
    ],
)
def test_refuses_roles_that_clash(roles, message):
    with pytest.raises(InputError, match=message):
        Schema("y", "t", **roles)


def test_refuses_an_unknown_setting():
    with pytest.raises(InputError, match="Did you mean 'observed'"):
        Schema.from_dict({"target": "y", "time": "t", "obseved": []})


def test_a_wrong_column_name_lists_the_columns_and_the_nearest():
    schema = Schema("sale", "time")
    with pytest.raises(InputError, match="target='sale'.*mean 'sales'.*store, time, sales, size"):
        prepare(shop_table(), schema, SMALL)


def _table(types):
    return ArrowTable(pa.table({name: pa.nulls(1, type_) for name, type_ in types.items()}))


@pytest.mark.parametrize("role", ["time", "group", "static", "known", "observed"])
def test_every_role_is_looked_up(role):
    value = "pric" if role == "time" else ("pric",)
    schema = Schema(**({"target": "sales", "time": "time"} | {role: value}))
    types = dict.fromkeys(("sales", "time", "price"), pa.float64())
    with pytest.raises(InputError, match=f"The {role} column.*Did you mean 'price'"):
        schema.check_columns(_table(types))


@pytest.mark.parametrize(
    ("column", "type_", "message"),
    [
        ("target", pa.string(), "'target' must hold numbers to be the target.*string"),
        ("known", pa.timestamp("s"), "'known' must hold numbers.*real-valued.*timestamp"),
        ("time", pa.duration("s"), "time column 'time'.*duration.*to_datetime"),
        ("time", pa.float64(), "time column 'time'.*double"),
    ],
)
def test_types_that_do_not_suit_a_role(column, type_, message):
    types = {"target": pa.float64(), "time": pa.int64(), "known": pa.float32()}
    with pytest.raises(InputError, match=message):
        Schema("target", "time", known=("known",)).check_columns(_table(types | {column: type_}))
