"""A batch as one journey: verified before it starts, judged while it runs, with a verdict and a report at its end."""
