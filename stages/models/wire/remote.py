"""What every adapter over HTTP has in common as an adapter."""

from collections.abc import Sequence

from stages.models.protocol import Adapter, Billing, Finding
from stages.models.wire.endpoint import Endpoint
from stages.models.wire.preflight import reached


class Remote(Adapter):
    """An adapter whose calls go to an endpoint."""

    endpoint: Endpoint

    @property
    def billing(self) -> Billing | None:
        """The endpoint's."""
        return self.endpoint.billing

    def share(self, processes: int) -> None:
        """A share of the provider's calls, at least one; before the first call."""
        self.concurrency = self.endpoint.concurrency = max(1, self.concurrency // processes)

    async def preflight(self, role: str) -> Sequence[Finding]:
        """Whether the server is there; adapters whose API can tell more ask for more."""
        return await reached(self.endpoint)
