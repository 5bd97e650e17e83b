"""The folder tree: files, folders, messages under their lock, arrivals, the sweep.

Plain blocking functions. Server, mover and reaper share them.
"""
