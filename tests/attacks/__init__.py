"""Attacks on whatever judges, measures and records; each test is one that is tried and defeated."""
