import xml.etree.ElementTree as ET

from helpers.scenarios import DENY_ALL, act

from knp_py.replay.junit import junit_xml
from knp_py.replay.performance import Result

TEXT = f"""\
name: a <name> & "quotes"
steps:
  - name: one
    apply: {DENY_ALL}
    expect:
      - {{from: a/client, connect: a/server, verdict: deny}}
      - {{from: a/client, connect: a/server, verdict: allow, name: "<b>\\u0007\\u2028]]>"}}
      - {{from: a/nobody, connect: a/server, verdict: allow}}
  - {{name: two, delete: pod/a/nobody}}
"""


def parsed(*results: Result) -> ET.Element:
    text = junit_xml(results)
    assert text.startswith('<?xml version="1.0" encoding="UTF-8"?>\n')
    return ET.fromstring(text.encode())


def test_suites_cases_and_counts() -> None:
    result = act(TEXT)
    root = parsed(result, act("steps: [{}]"))
    assert root.tag == "testsuites"
    first, second = root.findall("testsuite")
    assert first.get("name") == 'a <name> & "quotes"'
    assert second.get("name") == "s.yaml"
    for element, counts in ((root, ("4", "1", "2")), (first, ("4", "1", "2")), (second, "000")):
        assert (element.get("tests"), element.get("failures"), element.get("errors")) == tuple(
            counts
        )
    cases = first.findall("testcase")
    assert len(cases) == 4
    assert [[child.tag for child in case] for case in cases] == [
        ["system-out"],
        ["failure"],
        ["error"],
        ["error"],
    ]
    assert {case.get("classname") for case in cases[:3]} == {'a <name> & "quotes".one'}


def test_a_failure_says_why() -> None:
    (failure,) = parsed(act(TEXT)).iter("failure")
    assert failure.get("message") == "expected allow, got deny: egress: Admin deny, rule 0"
    assert failure.text is not None
    assert "Admin deny (priority 100): rule 0 Deny: decided" in failure.text


def test_what_xml_cannot_hold_is_made_visible() -> None:
    case = parsed(act(TEXT)).findall("testsuite/testcase")[1]
    assert (case.get("name") or "").startswith("<b>\\x07\u2028]]> (a/client -> a/server:443")


def test_errors_say_where() -> None:
    errors = list(parsed(act(TEXT)).iter("error"))
    assert errors[0].text is not None
    assert errors[0].text.startswith(
        's.yaml: step "one": steps[0].expect[2].from: there is no pod'
    )
    assert errors[1].get("message") == "pod/a/nobody is not there"
