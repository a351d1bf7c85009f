"""Which place of a lab is meant by what a person types."""

from collections.abc import Collection

from knp_py.errors import InputError
from knp_py.manifests.problems import did_you_mean

_SHOWN = 5  # names that a message lists


def place_called(text: str, places: Collection[str]) -> str:
    """The place of that name (``pod:`` before it or not), or the one pod that begins so.

    The latter is how a workload is named: its pods are called after it. Raises ``InputError``
    when there is none or more than one, with names that may be meant instead.
    """
    name = text.removeprefix("pod:")
    if name in places:
        return name
    namespace, slash, pod = name.partition("/")
    if slash and pod:
        begun = sorted(place for place in places if place.startswith(name))
        # web-1 and web-2 are web's, whatever webshop is.
        own = [place for place in begun if place.startswith(f"{name}-")] or begun
        if len(own) == 1:
            return own[0]
        if own:
            raise InputError(f"{text} may be {_few(own, 'or')}: say which")
    raise InputError(f"there is no pod {text}{_hint(name, namespace, sorted(places))}")


def _hint(name: str, namespace: str, places: list[str]) -> str:
    bare = [place for place in places if place.endswith(f"/{name}")]
    if bare:
        return f", did you mean {_few(list(map(repr, bare)), 'or')}?"
    slip = did_you_mean(name, places)
    if slip:
        return slip
    near = [place for place in places if place.startswith(f"{namespace}/")]
    if near and "/" in name:
        pods = [place.partition("/")[2] for place in near]
        return f"; namespace {namespace} has {_few(pods, 'and')}"
    return f"; there are {_few(places, 'and')} (see knp lab status)"


def _few(names: list[str], word: str) -> str:
    """``a, b and c``; of many the first, and how many there are besides."""
    if len(names) > _SHOWN:
        return f"{', '.join(names[:_SHOWN])} {word} {len(names) - _SHOWN} more"
    return f" {word} ".join(filter(None, (", ".join(names[:-1]), names[-1])))
