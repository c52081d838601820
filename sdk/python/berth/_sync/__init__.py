"""The client for threads, made from ``berth._async``."""
