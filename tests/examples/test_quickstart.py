from pathlib import Path

from helpers.command import knp

EXAMPLE = Path(__file__).parents[2] / "examples" / "quickstart"


def test_the_scenario_holds() -> None:
    ended = knp("test", str(EXAMPLE))
    assert ended.code == 0
    assert ended.out.splitlines()[-1] == "6 of 6 expectations met in 1 scenario"
