from helpers.builders import pod

from knp_py.agent.gauges import watch_engine
from knp_py.agent.metrics import Metrics
from knp_py.agent.verdictlog import VerdictLog
from knp_py.engine.datapath import Datapath
from knp_py.engine.evaluate import PolicyEngine
from knp_py.engine.names import DomainCache
from knp_py.engine.resolvers import parse_trust
from knp_py.engine.snoop import DnsSnooper
from knp_py.model.decision import Decision, Verdict
from knp_py.verdicts.record import FlowFacts


def test_what_the_engine_counts_is_shown() -> None:
    metrics = Metrics(version="1", mode="fail-open")
    names = DomainCache(max_unwanted_per_client=2)
    datapath = Datapath(PolicyEngine(names), DnsSnooper(names, trust=parse_trust("auto")))
    log = VerdictLog(lambda _: None, limit=2)
    watch_engine(metrics, datapath=datapath, names=names, logs=[log])

    def shown() -> dict[str, dict[tuple[str, ...], float]]:
        return {
            family.name: {
                tuple(value for _, value in each.labels): each.value for each in family.samples
            }
            for family in metrics.families()
        }

    before = shown()
    assert before["knp_names"] == {(): 0}
    assert before["knp_dns_answers_total"] == {}
    assert before["knp_dns_addresses_total"] == {(): 0}

    who = pod("x/p", "10.1.0.5", uid="uid-p")
    for number in range(3):
        names.learn(who, f"n{number}.ex", 1, ttl=60, now=0.0, source=None)
    datapath.snooper.counts.update({"learned": 3, "late": 1, "addresses": 7})
    datapath.unparsed["truncated TCP header"] += 2
    for _ in range(3):
        decision = Decision(Verdict.UNKNOWN, None, None, None)
        log.log(decision, FlowFacts(0, 1, 2, 3, 6), generation=1)
    after = shown()
    assert after["knp_names"] == {(): 2}
    assert after["knp_names_evicted_total"] == {(): 1}
    assert after["knp_dns_answers_total"] == {("learned",): 3, ("late",): 1}
    assert after["knp_dns_addresses_total"] == {(): 7}
    assert after["knp_unparsed_total"] == {("truncated TCP header",): 2}
    assert after["knp_log_lines_omitted_total"] == {("limit", "unknown"): 1}
    assert after["knp_scrape_errors_total"] == {}
