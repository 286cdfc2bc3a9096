"""This folder has a trained agent of the suite in each subfolder, and the program that adds an agent."""
