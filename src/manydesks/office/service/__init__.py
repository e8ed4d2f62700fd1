"""The office as a service of its owner, so that it is there after a reboot."""
