"""What ManyDesks is measured with. Run through `scripts/bench`; not part of the package."""
