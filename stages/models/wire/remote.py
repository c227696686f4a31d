"""What every adapter over HTTP has in common as an adapter."""

from stages.models.protocol import Adapter, Billing
from stages.models.wire.endpoint import Endpoint


class Remote(Adapter):
    """An adapter whose calls go to an endpoint."""

    endpoint: Endpoint

    @property
    def billing(self) -> Billing | None:
        """The endpoint's."""
        return self.endpoint.billing
