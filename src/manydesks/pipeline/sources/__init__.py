"""What Spark reads: one file per source. These modules are imported on Spark's workers too."""
