import re

from knp_py.agent.families import FAMILIES


def test_names_follow_prometheus() -> None:
    names = [each.name for each in FAMILIES]
    assert len(set(names)) == len(names)
    for each in FAMILIES:
        assert re.fullmatch(r"knp_[a-z]+(_[a-z]+)*", each.name)
        assert each.name.endswith("_total") == (each.kind == "counter")
        assert all(re.fullmatch("[a-z]+", label) for label in each.labels)
        assert len(set(each.labels)) == len(each.labels)


def test_each_is_explained_in_a_sentence() -> None:
    for each in FAMILIES:
        assert each.help.endswith(".")
        assert "\n" not in each.help
