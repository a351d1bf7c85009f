"""Command lines only; agents run in ``tests/rooted``."""

from knp_py.lab.enforcer import Post, agent_options

POST = Post("space", "/m", "/s", "/v", "/l", "/c", "/r")


def test_what_a_lab_needs_and_what_the_user_says() -> None:
    options = agent_options(POST, [])
    assert options[:5] == ["--manifests", "/m", "--state-dir", "/s", "--all-nodes"]
    assert options[5:] == ["--clock-file", "/c", "--fail-open", "--log-verdicts", "all"]
    options = agent_options(POST, ["--fail-closed", "--log-verdicts=deny", "--strict-mode"])
    assert options[7:] == ["--fail-closed", "--log-verdicts=deny", "--strict-mode"]
