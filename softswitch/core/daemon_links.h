/* Link states: owns the rtnetlink socket that says when an interface goes down, comes up or is deleted. */
#ifndef WEFT_DAEMON_LINKS_H
#define WEFT_DAEMON_LINKS_H

/* A non-blocking socket that is readable when the state of any link of this namespace changed; -errno. */
int wd_links_open(void);
/* Reads away what is there. 1 if something was. The news itself is asked of the interface, so that a lost message
 * costs nothing. */
int wd_links_drain(int fd);

#endif
