"""The office's history in figures, without Spark: reads what the pipeline has published."""
