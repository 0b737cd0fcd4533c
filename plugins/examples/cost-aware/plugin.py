"""CostAware: prefers the node on which the pod costs least.

A node's price stands in the arguments, by its instance type. A pod pays for the larger of the two shares of CPU and memory
that it takes of the node: on a dear node that is large enough it may cost less than on a cheap one.
"""

import berth

INSTANCE_TYPE = "node.kubernetes.io/instance-type"
CAPACITY_TYPE = "karpenter.sh/capacity-type"

# A pod that requests less pays for this share: nothing runs for nothing.
LEAST_SHARE = 0.01

# The score of a node without a price, before normalising.
NO_PRICE = -1


@berth.plugin
class CostAware:
    name = "CostAware"
    version = "0.1.0"
    columns = [berth.label(INSTANCE_TYPE), berth.label(CAPACITY_TYPE), berth.ALLOCATABLE]

    def configure(self, args):
        args = dict(args or {})
        self.prices = args.pop("prices", None)
        self.spot_factor = args.pop("spotFactor", 1)
        if not isinstance(self.prices, dict) or not all(is_positive(price) for price in self.prices.values()):
            raise ValueError("prices: must name a price for an hour, above 0, by instance type")
        if not is_positive(self.spot_factor):
            raise ValueError("spotFactor: must be what a spot node costs of its price, above 0")
        if args:
            raise ValueError(f"{min(args)}: there is no such argument; there are prices and spotFactor")

    def score(self, pod: berth.Pod, node: berth.Node) -> int:
        """Millionths of the price's currency for an hour."""
        price = self.prices.get(node.labels.get(INSTANCE_TYPE))
        if price is None:
            return NO_PRICE
        if node.labels.get(CAPACITY_TYPE) == "spot":
            price *= self.spot_factor
        return round(1_000_000 * price * share(pod, node))

    def normalize(self, pod: berth.Pod, scores: list[int]) -> list[int]:
        """100 for the node on which the pod costs least, 1 where it costs most, 0 without a price."""
        costs = [cost for cost in scores if cost != NO_PRICE]
        if not costs:
            return [0] * len(scores)
        least, span = min(costs), max(costs) - min(costs)
        return [
            0 if cost == NO_PRICE else 100 - 99 * (cost - least) // span if span else 100
            for cost in scores
        ]


def share(pod: berth.Pod, node: berth.Node) -> float:
    """The larger of the two shares of CPU and memory that the pod takes of the node."""
    shares = [
        pod.requests.get(resource, 0) / node.allocatable[resource]
        for resource in ("cpu", "memory")
        if node.allocatable.get(resource)
    ]
    return max([LEAST_SHARE, *shares])


def is_positive(value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0
