"""The whole server: started, watched, changed and stopped. All other folders of the supervisor are its parts."""
