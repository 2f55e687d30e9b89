"""Commands about workflows, flows and checks."""
