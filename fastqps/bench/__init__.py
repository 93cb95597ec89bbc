"""`fastqps bench`: how fast a deployment is, where the time goes, why the device idles, and which settings to run."""
