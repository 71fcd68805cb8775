"""What does a pod ask for, as kube-scheduler counts it? Asked by the codec, once for each distinct template.

    containers      summed
    sidecars        (init containers that restart always) summed with the containers; each also counts for the
                    init containers after it
    init containers the largest moment of the start-up, if that is more than the sum
    pod level       replaces the sum for the names it sets (cpu, memory, huge pages)
    overhead        added at the end

Where a kubelet reports what a container really has (a resize in place), the largest of asked, allocated and actual
counts; if the resize is infeasible, what is asked does not. A limit without a request is a request, as the API server
fills it in. Sums are exact; only the result is rounded up, to millicores and to whole units."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from msgspec import Struct, structs

from growth.model.quantity import QuantityError, parse_quantity
from growth.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, Resources

Quantities = Mapping[str, str | int | float]
Amounts = dict[str, Fraction]

_COUNTED = (CPU, MEMORY, EPHEMERAL_STORAGE)


class Asked(Struct, frozen=True):
    """What one container (or the pod as a whole) asks for, and what it has by its status; None: the status does not
    say.
    """

    name: str = ""
    requests: Quantities = {}
    limits: Quantities = {}
    actual: Quantities | None = None
    allocated: Quantities = {}
    is_sidecar: bool = False


class PodAsked(Struct, frozen=True):
    """Everything that a pod's effective request is computed from."""

    containers: Sequence[Asked] = ()
    init_containers: Sequence[Asked] = ()
    pod_level: Asked = Asked()
    overhead: Quantities = {}
    is_resize_infeasible: bool = False


def effective_requests(pod: PodAsked) -> Resources:
    """What kube-scheduler reserves for the pod; raises QuantityError naming the container and the resource."""
    total = _of_containers(pod, with_status=True)
    _replace_by_pod_level(total, pod)
    _add(total, _read("overhead", pod.overhead))
    return _rounded(total)


def is_counted(name: str) -> bool:
    """Does kube-scheduler look at this resource in a request? Others (`storage`, `pods`, names without a domain) it
    passes over.
    """
    return (
        name in _COUNTED
        or name.startswith(("hugepages-", "attachable-volumes-"))
        or ("/" in name and not name.startswith("requests."))
    )


def is_pod_level(name: str) -> bool:
    return name in (CPU, MEMORY) or name.startswith("hugepages-")


def _of_containers(pod: PodAsked, *, with_status: bool) -> Amounts:
    total: Amounts = {}
    for container in pod.containers:
        _add(total, _of_container(pod, container, with_status))
    sidecars: Amounts = {}
    largest_start: Amounts = {}
    for container in pod.init_containers:
        amounts = _of_container(pod, container, with_status and container.is_sidecar)
        if container.is_sidecar:
            _add(total, amounts)
            _add(sidecars, amounts)
            _raise_to(largest_start, sidecars)
        else:
            _raise_to(largest_start, _sum((amounts, sidecars)))
    _raise_to(total, largest_start)
    return total


def _of_container(pod: PodAsked, container: Asked, with_status: bool) -> Amounts:
    where = f"container {container.name}"
    asked = _read(where, {**container.limits, **container.requests})
    return _with_status(pod, container, asked) if with_status else asked


def _with_status(pod: PodAsked, container: Asked, asked: Amounts) -> Amounts:
    if container.actual is None:
        return asked
    where = f"status of {container.name or 'pod'}"
    result: Amounts = {} if pod.is_resize_infeasible else dict(asked)
    _raise_to(result, _read(where, container.actual))
    _raise_to(result, _read(where, container.allocated))
    return result


def _replace_by_pod_level(total: Amounts, pod: PodAsked) -> None:
    asked = _pod_level_requests(pod)
    effective = _with_status(pod, pod.pod_level, asked)
    total.update({name: effective.get(name, Fraction(0)) for name in asked})


def _pod_level_requests(pod: PodAsked) -> Amounts:
    """With the API server's defaults: where the pod has any limit, what its containers ask for is its request too, or
    else the limit.
    """
    asked = {name: amount for name, amount in _read("pod", pod.pod_level.requests).items() if is_pod_level(name)}
    limits = _pod_level_limits(pod)
    if not limits:
        return asked
    of_containers = _of_containers(pod, with_status=False)
    defaults: Amounts = {name: of_containers[name] for name in (CPU, MEMORY) if name in of_containers}
    return {**{name: limit for name, limit in limits.items() if is_pod_level(name)}, **defaults, **asked}


def _pod_level_limits(pod: PodAsked) -> Amounts:
    """Huge pages of containers become a limit of the pod where it states anything itself, but no request for them."""
    limits = _read("pod", pod.pod_level.limits)
    if limits or pod.pod_level.requests:
        for name, amount in _of_containers(_only_limits(pod), with_status=False).items():
            if name.startswith("hugepages-") and name not in pod.pod_level.requests:
                limits.setdefault(name, amount)
    return limits


def _only_limits(pod: PodAsked) -> PodAsked:
    return PodAsked(
        [structs.replace(container, requests={}) for container in pod.containers],
        [structs.replace(container, requests={}) for container in pod.init_containers],
    )


def _read(where: str, quantities: Quantities) -> Amounts:
    return {name: _amount(where, name, text) for name, text in quantities.items()}


def _amount(where: str, name: str, text: str | int | float) -> Fraction:
    try:
        amount = parse_quantity(text)
    except QuantityError as error:
        raise QuantityError(f"{where}: {name}: {error}") from None
    if amount < 0:
        raise QuantityError(f"{where}: {name}: {text!r} is negative")
    return amount


def _add(total: Amounts, more: Amounts) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, Fraction(0)) + amount


def _sum(parts: Iterable[Amounts]) -> Amounts:
    total: Amounts = {}
    for part in parts:
        _add(total, part)
    return total


def _raise_to(total: Amounts, other: Amounts) -> None:
    for name, amount in other.items():
        total[name] = max(total.get(name, amount), amount)


def _rounded(amounts: Amounts) -> Resources:
    return Resources(
        {name: _up(amount * 1000 if name == CPU else amount) for name, amount in amounts.items() if is_counted(name)}
    )


def _up(amount: Fraction) -> int:
    return -(-amount.numerator // amount.denominator)
