"""An example office: a product team on `rehearsal`, whose answers are scripted and cost nothing."""
