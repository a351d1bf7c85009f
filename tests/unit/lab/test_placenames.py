import pytest

from knp_py.errors import InputError
from knp_py.lab.placenames import place_called

PLACES = ["node", "internet", "shop/web", "shop/api-1", "shop/db-0", "shop/db-1", "shop/dbadmin"]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("node", "node"),
        ("shop/web", "shop/web"),
        ("pod:shop/web", "shop/web"),
        ("shop/api", "shop/api-1"),  # the workload
        ("shop/dba", "shop/dbadmin"),
    ],
)
def test_a_place_is_its_name_or_the_beginning_of_one(text: str, place: str) -> None:
    assert place_called(text, PLACES) == place


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("shop/db", "shop/db may be shop/db-0 or shop/db-1: say which"),
        ("shop/wbe", "there is no pod shop/wbe, did you mean 'shop/web'?"),
        ("web", "there is no pod web, did you mean 'shop/web'?"),
        ("nod", "there is no pod nod, did you mean 'node'?"),
        (
            "shop/cart",
            "there is no pod shop/cart; namespace shop has api-1, db-0, db-1, dbadmin and web",
        ),
        (
            "bank/",
            (
                "there is no pod bank/; there are internet, node, shop/api-1, shop/db-0, shop/db-1"
                " and 2 more (see knp lab status)"
            ),
        ),
    ],
)
def test_what_is_no_place_is_told_what_may_be_meant(text: str, line: str) -> None:
    with pytest.raises(InputError) as told:
        place_called(text, PLACES)
    assert str(told.value) == line
