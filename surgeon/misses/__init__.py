"""Why a pattern does not fit where it nearly does: findings, and the walk over a pattern's tree that makes them."""
