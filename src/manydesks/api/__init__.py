"""The office over HTTP: every act of the command line, events as they happen, and an OpenAPI document of it all."""
