"""What the API costs beside a server that does nothing, and how soon those who follow hear of something."""
