"""The API under `/api/v1`: what programs may read, answer and steer, each with a token."""
