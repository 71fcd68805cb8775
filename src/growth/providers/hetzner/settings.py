"""What must growth be told to buy at Hetzner? The section `hetzner` of the settings file; checked at the start.

Asked by `controllers/configuration`. Secrets are never in it, only the files that hold them. `launch` says how servers
are made; a NodePool may choose another of the `profiles` by `providerSettings`."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

LARGEST_USER_DATA_BYTES = 32 * 1024

NameText = Annotated[str, Meta(min_length=1, max_length=128)]
ImageName = Annotated[str, Meta(max_length=128)]
PathText = Annotated[str, Meta(max_length=4096)]
LabelText = Annotated[str, Meta(max_length=63, pattern=r"^([A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?)?\Z")]
AddressRange = Annotated[str, Meta(max_length=43, pattern=r"^[0-9a-fA-F.:]+/[0-9]{1,3}\Z")]
Endpoint = Annotated[
    str, Meta(pattern=r"^(https://[^\s]+|http://(127\.0\.0\.1|localhost|\[::1\])(:[0-9]+)?(/[^\s]*)?)\Z")
]


class Launch(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """How servers are made."""

    image: Annotated[
        ImageName,
        Meta(description="Name of the image, e.g. ubuntu-24.04; the one for the server's architecture is taken."),
    ] = "ubuntu-24.04"
    image_selector: Annotated[
        str,
        Meta(
            max_length=500,
            description="Instead of a name: the newest snapshot with these labels and the right architecture, "
            "e.g. role=worker.",
        ),
    ] = ""
    networks: Annotated[
        tuple[NameText, ...], Meta(max_length=3, description="Private networks to join, by name or id.")
    ] = ()
    subnets: Annotated[
        dict[NameText, AddressRange],
        Meta(
            max_length=3,
            description="For a network of `networks`: the range of the subnet to take the address from, "
            "e.g. kube: 10.0.1.0/24.",
        ),
    ] = {}
    firewalls: Annotated[
        tuple[NameText, ...], Meta(max_length=5, description="Firewalls to apply, by name or id.")
    ] = ()
    ssh_keys: Annotated[
        tuple[NameText, ...], Meta(max_length=100, description="SSH keys to install, by name or id.")
    ] = ()
    spread: Annotated[
        bool,
        Meta(
            description="Put servers into spread placement groups, made on demand, ten in each: "
            "no two of a group share a host."
        ),
    ] = False
    public_ipv4: Annotated[bool, Meta(description="Give servers a public IPv4 address, which costs extra.")] = True
    public_ipv6: Annotated[bool, Meta(description="Give servers a public IPv6 network.")] = True
    user_data_file: Annotated[PathText, Meta(description="Template of the user data (cloud-init), a mounted file.")] = (
        ""
    )
    join_token_file: Annotated[
        str,
        Meta(
            max_length=4096,
            description="What machines join the cluster with, a mounted file: `growth.join_token`. "
            "Not read where tokens are minted.",
        ),
    ] = ""
    values: Annotated[
        dict[Annotated[str, Meta(max_length=63, pattern=r"^[a-z][a-z0-9_]*\Z")], Annotated[str, Meta(max_length=4096)]],
        Meta(max_length=50, description="Values of your own for the template: `growth.values.NAME`. Nothing secret."),
    ] = {}
    labels: Annotated[
        dict[NameText, LabelText],
        Meta(max_length=20, description="Labels for the servers at Hetzner, beside growth's own."),
    ] = {}

    def __post_init__(self) -> None:
        unknown = [name for name in self.subnets if name not in self.networks]
        if unknown:
            raise ValueError(f"subnets names {', '.join(unknown)}, which is not among networks")


class Reserved(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What kubelets keep from pods, for the estimate of what a new type's nodes will have."""

    cpu: Annotated[
        str, Meta(max_length=20, description="kube-reserved and system-reserved cpu; empty: 60m and 10m for each core.")
    ] = ""
    memory: Annotated[
        str, Meta(max_length=20, description="kube-reserved and system-reserved memory; empty: 2 % of the machine's.")
    ] = ""


class HetznerSettings(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The project, our share of its requests, and how servers are made."""

    token_file: Annotated[
        PathText,
        Meta(description="The project's API token (read and write), a mounted file; read again when it changes."),
    ] = "/etc/growth-hetzner/token"  # noqa: S105  (a path)
    endpoint: Annotated[Endpoint, Meta(description="Address of the API. Plain HTTP only on loopback.")] = (
        "https://api.hetzner.cloud/v1"
    )
    locations: Annotated[
        tuple[NameText, ...], Meta(max_length=50, description="Buy only in these locations; empty: in all.")
    ] = ()
    zone_label: Annotated[
        Literal["location", "datacenter"],
        Meta(
            description="What topology.kubernetes.io/zone says: the location (fsn1), "
            "or what Hetzner's cloud controller writes (fsn1-dc14)."
        ),
    ] = "location"
    requests_per_hour: Annotated[
        int, Meta(ge=60, le=100_000, description="Our share of the project's limit (3600); the rest is for others.")
    ] = 3000
    call_seconds: Annotated[
        float, Meta(gt=0, le=120, description="How long one call may take before its answer is unknown.")
    ] = 25.0
    reserved: Annotated[Reserved, Meta(description="What kubelets keep from pods: `cpu`, `memory`.")] = Reserved()
    launch: Annotated[Launch, Meta(description="How servers are made, below.")] = Launch()
    profiles: Annotated[
        dict[NameText, Launch],
        Meta(
            max_length=50,
            description="Other ways to make servers, by name; each is whole. "
            "A NodePool chooses with `providerSettings`.",
        ),
    ] = {}

    def launch_of(self, profile: str) -> Launch | None:
        """How servers of a pool are made; None: its profile does not exist."""
        return self.profiles.get(profile) if profile else self.launch
