"""Label selectors (API: metav1.LabelSelector)."""

from collections.abc import Mapping
from enum import Enum

import msgspec


class Operator(Enum):
    """matchExpressions operators."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


class Requirement(msgspec.Struct, frozen=True, gc=False):
    """One matchExpressions entry; ``values`` is empty for Exists and DoesNotExist."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """NotIn and DoesNotExist match objects without the key (API text)."""
        match self.operator:
            case Operator.IN:
                return labels.get(self.key) in self.values
            case Operator.NOT_IN:
                return labels.get(self.key) not in self.values
            case Operator.EXISTS:
                return self.key in labels
            case Operator.DOES_NOT_EXIST:
                return self.key not in labels


class LabelSelector(msgspec.Struct, frozen=True, gc=False):
    """All parts ANDed; no part at all matches everything. Parts are sorted and unique."""

    match_labels: tuple[tuple[str, str], ...] = ()
    match_expressions: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels is selected."""
        for key, value in self.match_labels:
            if labels.get(key) != value:
                return False
        return all(requirement.matches(labels) for requirement in self.match_expressions)

    @property
    def keys(self) -> set[str]:
        """Label keys this selector reads."""
        keys = {key for key, _ in self.match_labels}
        keys.update(requirement.key for requirement in self.match_expressions)
        return keys


EVERYTHING = LabelSelector()
