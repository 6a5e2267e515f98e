"""Measurements that back the project's claims, baselines included; not installed."""
