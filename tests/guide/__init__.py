"""The pages of docs/guide, whose programs run."""
