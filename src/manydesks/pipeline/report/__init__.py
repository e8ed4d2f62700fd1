"""The history as one page with charts, made of what the pipeline has published. It needs no Spark and no network."""
