"""Intervals, trends and races: how sure a figure is."""
