"""The moving parts: intake, dispatch, delivery, recovery, and the host that runs them."""
